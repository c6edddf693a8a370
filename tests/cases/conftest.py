"""Programs that tests migrate. None of them is a test by itself, whatever its name."""

collect_ignore_glob = ["*"]
