"""What is measured of rung 19: speeds by kind of scales, errors, and how long quantizing takes."""
