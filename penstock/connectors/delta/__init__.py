"""Delta: `connector` is what the engine sees, `committing` how versions are made one after the other."""
