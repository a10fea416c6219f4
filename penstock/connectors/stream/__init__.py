"""The embedded stream log as a source and a sink: `connector.py` declares it, `options.py` what it takes;
`reader.py` and `writer.py` are the toolkit's two sides."""
