"""What a scatter does with several updates of one element, as its argument ``duplicates`` names it."""

DUPLICATES = ("unspecified", "last", "unique")
