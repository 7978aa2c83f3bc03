"""The release of Kopf that has these names."""

__version__ = "1.44.6"
__version_tuple__ = (1, 44, 6)
__commit_id__ = None
