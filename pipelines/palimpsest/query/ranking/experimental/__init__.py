"""Scorers and fusions that won on no collection that was measured; they stay selectable for comparison."""
