"""The dashboard: a web page that shows training runs, live and afterwards, from their folders and live feeds."""
