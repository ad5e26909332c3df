"""Ray Train jobs and the library that lets them outlive their hardware; one `py_modules` entry."""
