"""What the commands do and print."""
