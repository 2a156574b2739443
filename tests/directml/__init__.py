"""Tests of DirectML's operators by family: tables of calls, judged by what was not written here."""
