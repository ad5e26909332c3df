"""Expressions of definitions and policies: the language's own evaluator, with Kubernetes' functions."""
