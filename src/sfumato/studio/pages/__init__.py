"""One file a page. Each makes a `Page` called `page`; the server finds it."""
