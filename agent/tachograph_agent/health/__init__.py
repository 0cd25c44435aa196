"""What the node's agent sees of its node's health: one check a module, each with a time-out, none in training's way."""
