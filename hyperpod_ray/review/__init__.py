"""What a change will do to running training: compares two cloud assemblies. Imports neither aws_cdk nor cdk8s."""
