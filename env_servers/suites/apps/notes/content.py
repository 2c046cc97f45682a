"""What the seed draws notes, lists, folders, cities and skies from."""

FOLDERS = ("Home", "Work", "Travel", "Recipes", "Garden", "School", "Money", "Books", "Health", "Ideas")
TEXTS = (
    ("Meeting points", "Ask about the budget and the new desks."),
    ("Landlord", "The tap in the kitchen drips again."),
    ("Book club", "Next time we talk about chapter nine."),
    ("Car", "The winter tyres are in the cellar."),
    ("Dentist", "Ring before ten and ask for a late hour."),
    ("Birthday plan", "Candles are in the top drawer."),
    ("Wifi", "The guest name is on the back of the box."),
    ("Running", "Five easy rounds, then two fast ones."),
    ("Bread", "Let the dough rest for twelve hours."),
    ("Neighbours", "They are away until the end of the month."),
    ("Piano", "Bars nine to sixteen, left hand alone."),
    ("Clothes", "Pack for the weather."),
    ("Phone call", "Tell grandma about the school play."),
    ("Allotment", "Water the beans every second day."),
)
TRIPS = ("Trip", "Long weekend", "Visit to Anna", "Conference", "Summer holiday", "Wedding")
LISTS = {
    "Groceries": ("Milk", "Eggs", "Rice", "Lemons", "Butter", "Onions", "Honey"),
    "Packing": ("Passport", "Charger", "Raincoat", "Socks", "Camera", "Tickets", "Sunscreen"),
    "Chores": ("Vacuum", "Laundry", "Windows", "Bins", "Bathroom", "Ironing", "Plants"),
    "Camping": ("Tent", "Stove", "Torch", "Matches", "Map", "Blanket", "Rope"),
    "Party": ("Balloons", "Crisps", "Cups", "Music", "Napkins", "Ice", "Cake"),
    "School bag": ("Ruler", "Lunch box", "Pencils", "Gym shoes", "Atlas", "Glue", "Library card"),
}
NEW_TITLES = ("Gift ideas", "Paint colours", "Lost keys", "Bike repair", "Tea order", "Parking", "Choir", "Insurance")
NEW_TEXTS = (
    "Blue for the hall", "Ask Tom on Friday", "The shop closes at six", "Number 42, second floor",
    "Bring the old receipt", "Two boxes of green tea", "Behind the station", "Rehearsal moved to Monday",
)  # fmt: skip
NEW_ITEMS = ("Batteries", "Olives", "Umbrella", "Tape", "Candles", "Notebook", "Apples", "Soap")
CITIES = (
    "Porto", "Oslo", "Cairo", "Lima", "Quito", "Dakar", "Hanoi", "Perth", "Turin", "Riga", "Seoul", "Accra", "Bergen",
    "Nairobi", "Cusco", "Tunis",
)  # fmt: skip
SKIES = ("sunny", "cloudy", "rainy", "snowy", "windy", "stormy")

NOTES = (*(title for title, _ in TEXTS), *TRIPS, *LISTS)
"""Titles of notes."""
POOLS = {
    **dict.fromkeys(("pin", "unpin", "move", "rename", "delete", "high", "warmer", "look", "trip_add"), NOTES),
    **dict.fromkeys(("tick", "item", "rainy", "ask_left"), tuple(LISTS)),
    **dict.fromkeys(("high_city", "warmer_a", "warmer_b", "rainy_city", "remove_city", "add_city"), CITIES),
    **dict.fromkeys(("ask_now", "ask_diff", "ask_diff_b"), CITIES),
    "move_folder": FOLDERS,
}
"""By slot, what its value is drawn from."""
