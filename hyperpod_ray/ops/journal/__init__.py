"""The journal of a run: what its folder and its events say."""
