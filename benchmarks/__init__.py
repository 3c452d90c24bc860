"""How fast gradebox is, against bare Python in the same run."""
