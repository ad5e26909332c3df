"""Ray training on Amazon SageMaker HyperPod, as code."""
