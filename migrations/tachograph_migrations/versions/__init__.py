"""The revisions, one a module, from the first tables on."""
