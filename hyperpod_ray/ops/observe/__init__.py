"""What is there: the state of stacks, nodes, pods, queues, storage and training, read once."""
