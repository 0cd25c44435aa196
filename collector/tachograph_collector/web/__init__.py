"""The page that the collector serves at ``/``: its files, and where the chart library's lie. Nothing here serves."""
