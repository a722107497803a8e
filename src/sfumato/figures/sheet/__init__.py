"""The sheet that every figure is drawn on: layout, style, names, and safe SVG."""
