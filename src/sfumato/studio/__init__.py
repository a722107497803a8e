"""The studio: the whole job in a browser, on one's own machine.

A web server on the loopback address shows pages and keeps what was decided (`session`). It never
touches a record: a worker process for each session reads the data, measures and protects (`tasks`),
reports how far it is, and can be cancelled. Each step is a page in `pages/`. Forms are made from
the parameters of methods and measures (`forms`): a new one appears without a line here.
"""
