"""Words for names and addresses of people who do not exist. Common ones come first."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FEMALE_NAMES = _words(
    """
    Susan Julie Karen Jacqueline Deborah Tracey Jane Helen Diane Sharon Tracy Angela Sarah Alison
    Caroline Amanda Sandra Linda Catherine Elizabeth Carol Joanne Wendy Janet Dawn Christine Nicola
    Lesley Fiona Jennifer Maria Paula Michelle Lorraine Beverley Anne Margaret Teresa Gillian Lynn
    Yvonne Maxine Heather Ruth Rachel Lynne Denise Samantha Annette Hilary Penelope Rosemary Siân
    Zoë Bridget Noreen Mhairi Bronwen Priya Sunita Nasreen Fatima Mei-Ling Ngozi Abena Marisol Ilse
    """
)
MALE_NAMES = _words(
    """
    David Paul Andrew Mark John Michael Stephen Ian Robert Richard Christopher Peter Simon Anthony
    Kevin Gary Steven Martin James Philip Alan Neil Nigel Timothy Colin Graham Jonathan Nicholas
    William Adrian Brian Stuart Keith Thomas Patrick Sean Carl Trevor Wayne Kenneth Darren Barry
    Gordon Raymond Duncan Roger Malcolm Clive Julian Gareth Rhys Hamish Ewan Aled André Seán Rajesh
    Anil Imran Tariq Wei Chidi Kwame Desmond Winston Matteo Jürgen Piotr
    """
)
SURNAMES = _words(
    """
    Smith Jones Taylor Brown Williams Wilson Johnson Davies Robinson Wright Thompson Evans Walker
    White Roberts Green Hall Wood Jackson Clarke Patel Thomas Lewis Harris Turner Hill Cooper Ward
    Morris Moore Clark Lee King Baker Harrison Morgan Allen James Scott Phillips Watson Davis Parker
    Price Bennett Young Griffiths Mitchell Kelly Cook Carter Richardson Bailey Collins Bell Shaw
    Murphy Miller Cox Richards Khan Marshall Anderson Simpson Ellis Adams Singh Begum Wilkinson
    Foster Chapman Powell Webb Rogers Gray Mason Ali Hunt Hussain Campbell Matthews Owen Palmer
    Holmes Mills Barnes Knight Lloyd Butler Russell Barker Fisher Stevens Jenkins Murray Dixon
    Harvey Graham Pearson Ahmed Fletcher Walsh Kaur Gibson Howard Andrews Stewart Elliott Reynolds
    Saunders Payne Fox Ford Pearce Day Brooks West Lawrence Cole Atkinson Bradley Spencer Gill
    Dawson Watts Burton O'Brien O'Connor McDonald MacLeod Ap-Rhys Fitzgerald Armitage Entwistle
    Featherstone Ramsbottom Okafor Mensah Adeyemi Chowdhury Rahman Chen Wong Nowak Kowalski Rossi
    Müller Dvořák Núñez Papadopoulos Al-Sayed Smith-Jones Carver-Bligh Quennell Thistlewood
    """
)
STREETS = _words(
    """
    Alder Ash Beech Birch Bramble Briar Brook Candle Cherry Chestnut Clover Copper Crane Damson Dove
    Elder Ember Fallow Fern Finch Foundry Foxglove Gable Garnet Gorse Harbour Harvest Hawthorn Hazel
    Heron Holly Juniper Kestrel Lantern Larch Laurel Lichen Linden Mallow Meadow Mill Mint Moss
    Nettle Orchard Otter Pear Pebble Plover Poplar Quarry Quince Rook Rowan Rush Saddler Sedge
    Sorrel Sparrow Spindle Starling Sycamore Tanner Teasel Thistle Thrush Tulip Walnut Weaver Willow
    """
)
STREET_KINDS: tuple[str, ...] = (
    *("Road", "Street", "Lane", "Avenue", "Close", "Drive", "Way", "Gardens", "Crescent"),
    *("Grove", "Place", "Court", "Terrace", "Rise", "Mews", "Wharf"),
)
MAIL_DOMAINS: tuple[str, ...] = ("example.com", "example.org", "example.net")
"""Reserved by RFC 2606: a letter to them reaches nobody."""
