"""Makes the EAGLE-3 and Medusa heads of the embedded default. Not part of the product: nothing in speccli imports it."""
