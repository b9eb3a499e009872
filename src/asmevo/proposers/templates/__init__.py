"""Rewrite templates: rules as data, found in the data flow of a block, proved before they are shipped."""
