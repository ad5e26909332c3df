"""Ray Train jobs and the library that lets them outlive their hardware; travels to the cluster as one `py_modules` entry."""
