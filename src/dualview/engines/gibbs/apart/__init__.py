"""Steps of models whose users need not act as they look: two labels for each user."""
