"""What the seed draws a city, its places, rides and cards from."""

PLACES: dict[str, tuple[str, ...]] = {
    "museum": ("Harbour Museum", "Museum of Glass", "Old Mint Gallery", "Natural History Hall", "Rail Museum"),
    "cafe": ("Cafe Luna", "Blue Door Coffee", "The Copper Kettle", "Bean and Leaf", "Corner Bakery"),
    "park": ("Riverside Park", "Rose Garden", "Castle Hill Park", "Botanical Garden", "Lakeside Green"),
    "station": ("Central Station", "North Station", "Airport Terminal 1", "Airport Terminal 2", "Ferry Dock"),
    "hotel": ("Hotel Aurora", "Grand Plaza Hotel", "Seaview Inn", "The Linden Hotel", "Hotel Meridian"),
    "shop": ("Orchard Mall", "Market Hall", "Book Corner", "Garden Centre", "Tower Arcade"),
    "stage": ("Opera House", "City Stadium", "Lantern Theatre", "Concert Pavilion", "Comedy Cellar"),
    "care": ("Saint Mary Hospital", "Mill Street Clinic", "Dental Studio", "Eye Centre", "Northgate Pharmacy"),
    "work": ("Granite Tower", "Techpark East", "City Library", "Town Hall", "University Campus"),
}
STREETS = (
    "Mill Street", "Harbour Road", "Castle Lane", "Station Square", "Linden Avenue", "Park Row", "Bridge Street",
    "Market Place", "Elm Street", "Queen Street", "Canal Walk", "Hill Road",
)  # fmt: skip
CLASSES = (
    ("Mini", "2 seats", 240, 70),
    ("Comfort", "4 seats", 380, 95),
    ("Electric", "4 seats, electric", 420, 90),
    ("Van", "6 seats", 560, 130),
    ("Premium", "4 seats, top rated", 900, 185),
)
"""Name, what it is, cents to start with, cents for each block."""
CARDS = ("Visa 4821", "Mastercard 7730", "Amex 1009", "Visa 6654", "Travel card", "Company account", "Cash")
DRIVERS = ("Amina", "Boris", "Chen", "Dora", "Emil", "Farida", "Goran", "Hana", "Ivan", "Jonas", "Karin", "Luis")
TIMES = ("07:30", "08:15", "09:00", "11:45", "14:20", "17:10", "18:45", "21:30")
NOTES = (
    "I have a large suitcase", "Please ring the bell", "Two small dogs with me", "Wait at the back door",
    "Call me on arrival", "We need a child seat", "I walk with a stick", "Please drive slowly",
)  # fmt: skip
TIPS = (1, 2, 3, 5)
