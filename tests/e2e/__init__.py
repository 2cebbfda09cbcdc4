"""The web report in a real browser. A package, so that its fixtures, such as the browser, end with these tests."""
