"""What connectors to systems of messages share: options, hidden columns, decoding, start positions."""
