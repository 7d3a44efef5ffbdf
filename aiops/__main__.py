"""``python -m aiops``."""

from aiops.cli.main import main

if __name__ == "__main__":
    main()
