"""Models as users write them themselves, outside of any library. Needs torch."""
