"""The script's side: what runs in a benchmark's environment. Python 3.9 or newer, standard library only.

It is started as `python runner/__main__.py REQUEST.json LIFELINE`, calls one function of one prepare script, and writes
what came of it to the result file that the request names. Python processes that the script starts are observed as well:
they load it by way of a `sitecustomize` module.

What is observed is appended, as it happens, to one file per process in the run's folder: the `marshal` of `(monotonic
time in ns, operation, path relative to the checkout, detail)` each. gymbuild makes sense of them afterwards
(`observations.py`); here, each is only a fact.
"""
