"""The real models that were measured, collection by collection, and the configurations that are drawn of them. Pure."""
