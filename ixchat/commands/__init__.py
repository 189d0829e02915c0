"""The commands of `ix`: each reads its arguments, calls the product and prints."""
