"""The training image: one parameter set for base image, Ray, torch and CUDA."""
