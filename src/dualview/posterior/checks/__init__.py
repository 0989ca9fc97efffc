"""Whether the model fits its data: residuals and what is computed from them."""
