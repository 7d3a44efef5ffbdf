"""The command line: one module for each group of commands, each importing only what it uses."""
