"""How running pods get on: what is left of their work and how fast it goes. Knows no policy and no queue."""
