"""``python -m dualview.cli`` does what ``dualview`` does."""

import sys

from dualview.cli.commands import main

sys.exit(main())
