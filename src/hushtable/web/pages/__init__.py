"""One module for each screen: it asks the library, and fills a template."""
