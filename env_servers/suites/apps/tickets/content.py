"""What the seed draws films, trains, seats and cards from."""

FILMS = (
    ("The Glass Orchard", "Drama"), ("Nine Winters", "Drama"), ("A Letter to Ines", "Drama"), ("Paper Boats", "Drama"),
    ("Red Harbour", "Thriller"), ("The Last Tenant", "Thriller"), ("Cold Signal", "Thriller"), ("Undertow", "Thriller"),
    ("Captain Marmalade", "Family"), ("Otto and the Whale", "Family"), ("The Snow Fox", "Family"),
    ("Lost Balloon", "Family"), ("Two Left Feet", "Comedy"), ("My Cousin the Mayor", "Comedy"),
    ("Wedding in Reverse", "Comedy"), ("The Wrong Suitcase", "Comedy"), ("Orbit Nine", "Science fiction"),
    ("Salt Planet", "Science fiction"), ("The Quiet Machine", "Science fiction"), ("Afterlight", "Science fiction"),
)  # fmt: skip
CITIES = ("Porto", "Lyon", "Ghent", "Turin", "Basel", "Graz", "Malmo", "Leeds", "Bilbao", "Krakow", "Aarhus", "Brno")
EXTRAS = {
    "film": (("Popcorn", 480), ("Nachos", 520), ("Lemonade", 350), ("3D glasses", 150)),
    "train": (("Coffee", 290), ("Sandwich", 540), ("Bicycle place", 700), ("Luggage", 450)),
}
CODES = (("SPRING20", 20), ("FRIEND10", 10), ("LUCKY15", 15), ("MOVIE25", 25), ("WEEKEND5", 5))
CARDS = ("Visa 2204", "Mastercard 9173", "Amex 3316", "Gift card", "Wallet", "Visa 8045")
PEOPLE = ("Alma", "Bruno", "Celia", "Dario", "Elif", "Felix", "Greta", "Hugo", "Ilse", "Jakob", "Kira", "Leo")
SHOW_TIMES = ("13:15", "15:40", "17:50", "19:30", "20:45", "22:10")
TRAIN_TIMES = ("06:12", "07:48", "09:24", "11:06", "13:30", "15:54", "18:18", "20:36")
"""Films with their genres; extras with cents; codes with per cent off."""
