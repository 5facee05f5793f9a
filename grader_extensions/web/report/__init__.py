"""The report of a submission as HTML: one template for the site's page and for a file that needs nothing else.

It shows what the API says of a submission, so that what the API withholds is not here either. Everything that a submission brought is
untrusted: templates escape it, and bound it before they show it.
"""
