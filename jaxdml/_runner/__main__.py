"""Run the command, which is not imported by this name."""

import sys

from jaxdml._runner.command import main

sys.exit(main())
