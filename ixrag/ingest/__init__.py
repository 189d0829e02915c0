"""Files into a knowledge base: found, read, split, linked, and only what changed embedded again."""
