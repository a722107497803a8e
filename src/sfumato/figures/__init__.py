"""One drawing layer: figures that may be published, and pictures for the custodian."""
