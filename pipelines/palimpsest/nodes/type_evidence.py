"""Evidence of what type an entity is: its name, the words at its mentions, its facts, and documents about it."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.entities.find_names import (
    COUNTED,
    DEMONYMS,
    FEMALE,
    HONORIFICS,
    LINKS,
    MALE,
    OCCUPATION,
    OFFICES,
    ONE,
    PARTICLES,
    RELATIVE,
    SETTLEMENTS,
    is_full_name,
)
from palimpsest.entities.gazetteers import is_city, is_person_name
from palimpsest.entities.scope_evidence import find_people
from palimpsest.facts.vocabulary import IS_A
from palimpsest.text.words import CALENDAR_WORDS, fold, word_set

# Nouns that show of what type a node is: `a village` is a place, `a cellist` a person. Part of the program.
#
# Types follow the entity types of OntoNotes 5 (Weischedel et al., 2013): buildings, routes and land forms are places,
# and works of art are products.

_PERSON = """
accountant activist actor actress adviser advisor agent ambassador analyst anthropologist apprentice archaeologist
archbishop architect archivist artist assistant astronaut astronomer athlete attorney aunt author baby bailiff baker
ballerina banker barber baritone baron baroness bassist biologist bishop blacksmith boss botanist boxer boy boyfriend
breeder brewer broadcaster brother builder businessman businesswoman butcher candidate captain cardinal caretaker
carpenter cartoonist cat cellist centre-back centre-forward champion chancellor chaplain chef chemist chief child
choreographer cleaner clerk climber clown coach colleague collector colonel comedian commander commissioner companion
composer conductor contractor cook councillor counsellor countess cousin cricketer criminal critic curator cyclist dad
dancer daughter dean deputy designer detective developer diplomat director doctor dog dramatist drummer duchess duke
economist editor electrician emperor empress engineer engraver entrepreneur evangelist explorer farmer father fiance
fiancee filmmaker financier fisherman flatmate florist flutist footballer forward founder friend gardener general
geologist girl girlfriend glazier goalkeeper governess governor graduate granddaughter grandfather grandma grandmother
grandpa grandson granny guardian guest guide guitarist guy gymnast hairdresser hamster head headmaster headmistress
hero heroine historian horse host hostess housekeeper hunter husband hydrologist illustrator immigrant inspector
instructor intern inventor investor jockey journalist judge justice keeper keyboardist king kitten knight lad lady
landlady landlord lawyer lead leader lecturer librarian lieutenant linguist locksmith lord magician magistrate man
manager mason mathematician mayor mechanic medic member mentor merchant midfielder midwife millwright miner minister
missionary monk mother mountaineer mum musician nan naturalist neighbor neighbour nephew niece novelist nun nurse
officer official operator organiser organist owner painter paramedic parent parrot partner pastor patient patriarch
pharmacist philanthropist philosopher photographer physician physicist pianist pilot pioneer pitcher planner player
playwright plumber poet policeman politician pony pope porter postman postmaster potter presenter president priest
prince princess principal printer prisoner producer professor programmer prosecutor psychologist publisher pupil puppy
queen rabbi rabbit racer rapper receptionist rector reporter representative researcher resident roommate rower ruler
runner sailor saint salesman saleswoman scholar schoolteacher scientist screenwriter sculptor secretary senator
sergeant sheriff shopkeeper singer singer-songwriter sister skater skier sociologist soldier solicitor son songwriter
spokesman spokesperson spokeswoman sportsman sprinter statesman stepfather stepmother student sultan superintendent
supervisor surgeon surveyor swimmer tailor tailoress teacher technician tenant tenor theologian therapist tourist
trainee trainer translator traveller treasurer trustee tutor uncle vet veteran vicar violinist violist volunteer
waiter waitress warden weaver widow widower wife winemaker winger witness woman worker writer zoologist
"""
_ORGANISATION = """
academy administration agency airline alliance army assembly association authority bakery band bank board body brand
brewery brotherhood bureau business cabinet carrier chamber charity choir chorus church clinic club co-operative
college commission committee community company competitor confederation congregation congress consortium convent
cooperative corporation council court creamery crew customer dairy dealer dealership department distributor division
duo employer ensemble enterprise federation firm fleet foundation fund gang garrison gazette government group guild
hospital institute institution insurer kindergarten label laboratory league legislature library lobby magazine maker
manufacturer ministry mission monastery movement municipality museum navy newspaper ngo non-profit nonprofit nursery
orchestra organisation organization outfit parliament partnership party police press provider quartet quintet regiment
retailer school seminary senate society start-up startup store subsidiary supermarket supplier syndicate taskforce
team tribe tribunal trio troupe trust union university utility vendor wholesaler works workshop
"""
_ORGANISATION_ENDINGS = """
airlines batteries bikes boats books brothers capital cells chemicals circuits cloud consulting couriers dynamics
electric electronics energy engineering entertainment equipment estates fisheries foods freight gas homes industries
instruments insurance international investments labs logistics machines materials media metals mining mobile motors
networks oil outdoor paper parcel partners pharma pharmaceuticals plastics power print printing publishers publishing
radio realty records resources robotics sciences security semiconductors services shipping software solutions sons
steel studios supplies systems tech technologies technology telecom textiles tools toys trading transport travel tv
ventures wines
"""
_PLACE = """
abbey address airfield airport alley apartment aquarium arcade archipelago archway area arena avenue bar barn barracks
base basilica bay bayou beach beacon bog borough boulevard bowl bridge brook building bungalow cabin cafe café camp
campsite canal canteen canyon cape castle cathedral cave cemetery channel chapel chateau churchyard cinema city cliff
coast colony commune continent cottage country county courtyard creek crossing crossroads dale dam datacenter delta
depot desert district dock dune dwelling embankment empire estate estuary factory farm fell fen field firth fjord flat
footbridge ford forest fort fortress foundry fountain gallery garden gate glacier glen gorge grave ground gulf hall
hallway hamlet harbor harbour headland headquarters heath hill hillside homeland hostel hotel house hut incline inlet
inn island isle islet junction jungle kingdom kitchen lab lagoon lake land landmark lane lighthouse locality lock
lodge loft lowland mall manor mansion marsh meadow memorial mere mill mine moat monument moor mosque motorway mound
mount mountain neighborhood neighbourhood oasis observatory ocean office orchard outpost pagoda palace parade parish
park pass passage path peak peninsula pier pit place plain plant plateau plaza pond pool port prefecture premises
principality prison promenade province pub pyramid quarry quarter quay racecourse railroad railway range rapids reach
reef refuge region republic reservoir residence resort restaurant ridge salon river riverbank road room route ruin ruins
runway sanctuary sea seaside settlement shed shipyard shop shore shrine site slope spa spot square stadium staircase
state station strait stream street suburb summit swamp synagogue temple terminal terminus territory theater theatre
tomb tower town township track trail tributary tunnel underpass valley venue viaduct villa village volcano warehouse
waterfall watermill waterway waterworks well wetland wharf wood woodland yard zone zoo
"""
_PRODUCT = """
accessory aircraft album ale amplifier antenna anthem anthology app appliance application artwork atlas automobile bag
ballad ballet battery beer bicycle bike biography boat book bottle bracket broker browser bus cable cake camera canoe
cantata car card cartoon cell cereal cheese chip cider clock coat comedy comic compiler component computer concerto
console converter cookbook cream database datalogger dataset device dictionary dinghy display documentary drama
drawing drill drink drone drug dye encyclopaedia encyclopedia engine engraving etching fabric fertiliser film filter
firmware framework fresco game gateway gauge gearbox generator guidebook guitar gun hammer handbook hardware headset
helicopter helmet hymn instrument integration jacket jam kettle keyboard kit lamp laptop latch lens lifeboat liner
liqueur locomotive logger loudspeaker lyric machine medicine memoir mesh meter microphone modem monitor motor
motorcycle mug mural musical novel novella opera operetta oratorio ornament overture package packet paint painting
pamphlet panel part perfume phone photograph piano piece pill pistol play plugin poem portal poster probe processor
product protocol prototype pump relay rifle robot router safe sauce sausage saw scooter sculpture sedan sensor serial
server service ship shoe shoes shortbread sitcom sketch soap sofa software sonata song soundtrack spacecraft spacesuit
spreadsheet stamp statue steamer stencil story submarine suite suv switch symphony system tablet tank tapestry
telephone telescope textbook thriller tool toy tracker tractor trailer train tram transmitter treatise tricycle
trilogy truck trumpet tug typeface umbrella vaccine valve van vehicle video viewer violin volume wallpaper watch
weapon website wheelchair whisky widget winch wine wiper work yacht
"""
_PROJECT = """
attempt campaign dissertation experiment initiative migration plan program programme project refurbishment renovation
restoration roll-out rollout scheme thesis trial undertaking upgrade
"""
_EVENT = """
accident anniversary appointment argument attack auction avalanche bankruptcy battle birthday blackout bombing boycott
breakdown burglary carnival celebration ceremony championship christening closure collapse collision competition
concert conclave conference conflict contest coronation coup crash crisis cup cyclone debate demonstration derby
disaster drought earthquake eclipse election epidemic eruption evacuation event excursion exhibition expedition
explosion fair famine festival fete fight fire flood frost funeral gala gathering genocide gig hackathon half-marathon
happening heatwave holiday hurricane inauguration incident insurrection interview invasion kick-off kickoff launch
marathon march massacre match meeting merger murder mutiny olympics outage outbreak pandemic picnic pilgrimage plague
pogrom premiere procession protest race raid rally rebellion recession referendum regatta rehearsal retreat
retrospective reunion revolt revolution riot riots robbery seminar session siege stand-up standup storm strike
symposium talk tournament trip typhoon uprising visit voyage war wedding wreck
"""
_CONCEPT = """
abbreviation activity agreement algorithm approach award belief breed budget certificate class clause color colour
concept condition contract convention course creed currency curriculum custom dance decree degree demonym dialect
discipline disease doctrine edition element ethnicity exam faith form format formula genre habit honour idea illness
index interval invoice language law letter licence license list lot material measure medal metal method metric mineral
minutes myth name nickname norm notation number parasite patent period phenomenon philosophy policy practice principle
prize procedure profession recipe regulation religion report revision ritual role rule runbook science sect sheet
species sport standard statute strategy style subject subspecies substance surname symbol syndrome tax technique term
theorem theory title tradition treaty trophy unit variety virus warranty
"""
_SAME_PLURAL = word_set(
    "works police premises headquarters minutes olympics barracks railways waterworks series species"
)
_IRREGULAR = {
    "people": "person",
    "men": "man",
    "women": "woman",
    "children": "child",
    "wives": "wife",
    "staff": "person",
    "companies": "company",
    "mice": "mouse",
    "movies": "film",
    "movie": "film",
    "person": "person",
}


def _types() -> dict[str, str]:
    lists = (
        ("concept", word_set(_CONCEPT)),
        ("event", word_set(_EVENT)),
        ("project", word_set(_PROJECT)),
        ("product", word_set(_PRODUCT)),
        ("place", word_set(_PLACE) | SETTLEMENTS),
        ("organisation", word_set(_ORGANISATION)),
        ("person", word_set(_PERSON) | OCCUPATION | OFFICES | RELATIVE | {"person"}),
    )
    return {noun: kind for kind, nouns in lists for noun in nouns}


_TYPE_OF = _types()
_AMBIGUOUS_ENDINGS = word_set(
    "service framework court business wood summit"
)  # an agency or software, a house or judges
_ENDING_TYPE = dict.fromkeys(word_set(_ORGANISATION_ENDINGS), "organisation")
_TRANSPARENT = word_set("one kind class type sort group pair set range series family number collection row chain")
_STOPS = word_set(
    """
    of in on at for with from by to that which who whom whose where when and or between under over near about after
    before behind beside beyond above below into through across along around since until as but because if while
    """
)
_MAX_NOUN_WORDS = 12
_MARKS = "\"'()*_[]"


def noun_type(noun: str) -> str:
    """Returns the type of what a noun names, singular or plural, in small letters; empty where it shows none."""
    return _TYPE_OF.get(noun) or _TYPE_OF.get(singular(noun), "")


def ending_type(word: str) -> str:
    """Returns the type that the last word of a name shows: `Tidal Print`, `Grit Lane`, `Finnis Prize`."""
    lower = word.lower()
    return "" if singular(lower) in _AMBIGUOUS_ENDINGS else _ENDING_TYPE.get(lower) or noun_type(lower)


def singular(noun: str) -> str:
    """Returns the singular of a noun in small letters, by its ending."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun in _SAME_PLURAL or len(noun) < 4 or not noun.endswith("s") or noun.endswith(("ss", "us", "is")):
        return noun
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    if noun.endswith(("ches", "shes", "sses", "xes", "zes")):
        return noun[:-2]
    return noun[:-1]


def head_noun(phrase: str) -> str:
    """Returns the noun of a phrase that shows what it names, singular: `mill town at the sea` gives `town`.

    The last noun with a type before the first preposition counts; `a kind of`, `one of` and the like are skipped. Empty
    where no noun has a type.
    """
    found = last = ""
    for raw in phrase.split()[:_MAX_NOUN_WORDS]:
        word = raw.strip(_MARKS)
        noun = word.rstrip(",;:.!?").lower()
        if noun in _STOPS:
            if found or noun != "of" or last not in _TRANSPARENT:
                break
        elif noun_type(noun) and noun not in _TRANSPARENT:
            found = singular(noun)
        if word.lower() != noun:  # a mark ends the phrase
            break
        last = noun
    return found


# What the words before and after a name show of it: `the guide Anders Moll`, `Basin is the database`, `in Brakel`.
#
# Every rule is a regular expression over a short window of text at each mention; polars applies it to all mentions at
# once, in linear time (the engine has no backtracking).


_BEFORE_CHARS, _AFTER_CHARS = 60, 160
_DETERMINER = r"(?i:a|an|the|our|my|his|her|their|its|your|one of the|one of our|one of my)"
_ASIDE = r"(?:\s*\([^()]*\))?"
_SETTLED = "town|city|village|hamlet|island|isle|county|province|district|borough|parish|port|state|kingdom|region"
_TECHNICAL = (
    "database|server|service|gateway|probe|logger|app|portal|broker|software|modem|sensor|board|tool|firmware|library|"
    "framework|module|cluster|project|programme|program|campaign|initiative"
)
_PERSONAL = word_set(
    """
    said says asked asks told tells thinks thought wrote writes joined married lives lived laughed laughs smiled phoned
    wants wanted knows knew promised hopes hoped likes liked loves loved hates hated believes remembers forgot forgets
    explained cooks cooked sings sang painted retired studied studies taught teaches learned learnt drove drives sleeps
    slept ate eats born cried complained apologised apologized grew brought thanked reminded insisted admitted wondered
    """
)
_ADVERBS = "has|had|will|would|was|is|also|then|never|always|still|often|later|once|now|just|only|first"
_KIN = "wife|husband|daughter|son|mother|father|brother|sister|friend|boss|birthday|parents|children|family|widow|uncle"


class _Rule(NamedTuple):
    """A rule of contexts: what it captures is a phrase whose head noun shows the type, unless `type` is given."""

    name: str
    side: str
    pattern: str
    weight: float
    type: str = ""


_RULES = (
    _Rule(
        "defined",
        "after",
        rf"^{_ASIDE}(?:,?\s+(?:which|who))?,?\s+(?:is|was|are|were|remains|remained|became|becomes|means)\s+"
        rf"(?:now |still |also |today |once |then |only )?{_DETERMINER}\s+([^.;:!?\n]+)",
        3.0,
    ),
    _Rule(
        "apposed", "after", rf"^{_ASIDE},\s+(?:then |now |once )?{_DETERMINER}\s+([^.,;:!?()\n]+)(?:[.,;]|\s*$)", 1.0
    ),
    _Rule("listed", "after", rf"^{_ASIDE}\s*[:\u2013\u2014]\s+(?:{_DETERMINER}\s+)?([a-z][^.,;:!?\n]+)", 1.5),
    _Rule("gapped", "after", rf"^\s+{_DETERMINER}\s+([a-z][^.,;:!?\n]{{2,40}}?)(?:[.,;]|\s+and\s)", 0.8),
    _Rule("labelled", "before", rf"\b{_DETERMINER}\s+(?:[a-z][\w-]*\s+){{0,3}}([a-z][\w-]*)\s+$", 1.5),
    _Rule(
        "called",
        "before",
        r"\b([a-z][\w-]*),?\s+(?:(?:is|was|are)\s+)?(?:called|named|known as)\s+(?:the\s+)?[\"“']?$",
        2.5,
    ),
    _Rule("settled", "before", rf"\b(?i:({_SETTLED}))\s+of\s+$", 2.0),
    _Rule("compound", "after", rf"^\s+({_TECHNICAL})s?\b", 0.5),
    _Rule("where", "before", r"\b(?:[Ii]n|[Nn]ear|[Oo]utside|[Aa]round|[Tt]owards)\s+$", 0.2, "place"),
    _Rule("route", "before", r"\b(?:[Ff]rom|[Tt]o|[Aa]t|[Tt]hrough|[Aa]bove|[Bb]elow)\s+$", 0.15, "place"),
    _Rule("counted", "before", rf"\b(?i:{'|'.join(sorted(COUNTED | ONE))}|\d+)\s+$", 0.25, "product"),
    _Rule("acts", "after", rf"^(?:\s+(?:{_ADVERBS}))?\s+(?:{'|'.join(sorted(_PERSONAL))})\b", 1.0, "person"),
    _Rule("who", "after", r"^,?\s+who(?:se|m)?\b", 1.5, "person"),
    _Rule("kin", "after", rf"^['\u2019]s\s+(?:\w+\s+)?(?:{_KIN})\b", 1.5, "person"),
    _Rule("addressed", "before", r"\b(?:Dear|Hi|Hello|Hey|Thanks|Thank you|Mr|Mrs|Ms|Miss|Dr)[.,]?\s+$", 2.0, "person"),
)
_LINE_START = r"(?:^|\n)\s*(?:[-*+•]\s*)?[*_`\"“]*$"
_CONDITIONS = {
    "listed": pl.col("before").str.contains(_LINE_START),  # elsewhere a colon defines nothing
    "gapped": pl.col("before").str.contains(r"[^.!?:\s]\s+$"),  # `Ask the owner.` is an order
}


def name_contexts(mentions: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, type, rule, weight, noun, memory_id) for each mention and rule that shows a type, unsorted.

    Args:
        mentions: the mentions table; those with no place in the text show nothing.
        memories: the memories table.
    """
    rows = (
        mentions.drop_nulls("char_start")
        .select("entity_id", "memory_id", "char_start", "char_end")
        .unique()
        .join(memories.select("memory_id", "text"), on="memory_id")
    )
    start = pl.col("char_start")
    rows = rows.select(
        "memory_id",
        node_id="entity_id",
        before=pl.col("text").str.slice(
            pl.max_horizontal(start - _BEFORE_CHARS, 0), pl.min_horizontal(start, _BEFORE_CHARS)
        ),
        after=pl.col("text").str.slice(pl.col("char_end"), _AFTER_CHARS),
    )
    typed, phrased = pl.collect_all(
        [
            pl.concat([_with_type_shown(rows.lazy(), rule) for rule in _RULES if rule.type]),
            pl.concat([_with_phrase(rows.lazy(), rule) for rule in _RULES if not rule.type]),
        ]
    )
    return pl.concat([typed, with_noun_types(phrased, "phrase").select(typed.columns)])


def _with_type_shown(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    found = _meeting_condition(rows, rule).filter(pl.col(rule.side).str.contains(rule.pattern))
    return found.select("node_id", "memory_id", *_of_rule(rule), noun=pl.lit(""), type=pl.lit(rule.type))


def _with_phrase(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    phrase = pl.col(rule.side).str.extract(rule.pattern, 1)
    found = _meeting_condition(rows, rule).select("node_id", "memory_id", *_of_rule(rule), phrase=phrase)
    return found.drop_nulls("phrase")


def _meeting_condition(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    condition = _CONDITIONS.get(rule.name)
    return rows if condition is None else rows.filter(condition)


def _of_rule(rule: _Rule) -> tuple[pl.Expr, pl.Expr]:
    return pl.lit(rule.name).alias("rule"), pl.lit(rule.weight, pl.Float64).alias("weight")


def with_noun_types(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Returns the rows whose phrase has a head noun that shows a type, with the columns `noun` and `type`."""
    phrases = frame[column].unique().drop_nulls().to_list()
    nouns = [head_noun(p) for p in phrases]
    known = pl.DataFrame(
        {column: phrases, "noun": nouns, "type": [noun_type(n) for n in nouns]},
        schema={column: pl.String, "noun": pl.String, "type": pl.String},
    )
    return frame.join(known.filter(pl.col("type") != ""), on=column)


# What a name's own words show of its type: `Grit Lane`, `Flood of 1874`, `Dr. Hallam`, `Calder (river)`, `Mondays`.

_HOLIDAYS = frozenset({"christmas", "easter", "pentecost", "ramadan", "hanukkah", "new year"})
_PARENTHESIS = re.compile(r"\(([^()]+)\)\s*$")
_CUT = re.compile(
    r"(?<!\s)\s++(?:of|for|in|at|on|from|with|without|and|by|to|under|round|about|that|which|who)\s+|[:,;(–—]|\s-\s"  # noqa: RUF001
)
_NUMBERS = re.compile(r"(?<!\s)(?:\s++#?[\dIVX][\d.\-/]*+)++(?P<is_last>$)?")
_SINGLE_WEIGHT, _HEAD_WEIGHT = 0.5, 2.0  # of a name that is one common noun; of the last noun of several words
_FIRST_WEIGHT = 1.0
_NAME_WORDS = r"^\p{Lu}[\p{L}'’-]+ \p{Lu}[\p{L}'’-]+$"  # noqa: RUF001


class NameType(NamedTuple):
    """A type, the word that shows it, and how much that weighs."""

    type: str
    noun: str
    weight: float


def name_type(name: str) -> NameType | None:
    """Returns what a name's own words show, or None.

    The last noun before a preposition or a mark counts, a noun in parentheses at the end more. Nouns for people show
    nothing: `The Salt Clerk` is a novel.
    """
    folded = [w.strip(".,") for w in fold(name).split()]
    if not folded:
        return None
    if all(w in CALENDAR_WORDS or singular(w) in CALENDAR_WORDS for w in folded):
        return NameType("date", "", 5.0)
    if folded[0] == "project" and len(folded) > 1 and not ending_type(folded[-1]):
        return NameType("project", "project", 3.0)
    if fold(name) in _HOLIDAYS:
        return NameType("date", "", 3.0)
    if folded[0] in HONORIFICS | MALE | FEMALE and len(folded) > 1:
        return NameType("person", folded[0], 3.0)
    if len(folded) == 1 and folded[0] in DEMONYMS:
        return NameType("concept", "", 3.0)
    if (aside := _PARENTHESIS.search(name)) and (kind := noun_type(noun := fold(aside.group(1).split()[-1]))):
        return NameType(kind, noun, 4.0)
    before = _CUT.split(name.strip(), maxsplit=1)[0]
    numbers = next((m for m in _NUMBERS.finditer(before) if m["is_last"] is not None), None)
    words = before[: numbers.start() if numbers else None].split()
    kind = ending_type(words[-1]) if words else ""
    if kind in ("", "person"):
        return None if kind else _first_noun_type(words)
    has_more = len(words) > 1 or len(folded) > 1
    return NameType(kind, singular(words[-1].lower()), _HEAD_WEIGHT if has_more else _SINGLE_WEIGHT)


def _first_noun_type(words: list[str]) -> NameType | None:
    """Returns the type of `Hotel Patience`, `Lake Vann`: the first of two words is a noun for a place."""
    kind = noun_type(words[0].lower()) if len(words) == 2 else ""
    return NameType(kind, words[0].lower(), _FIRST_WEIGHT) if kind == "place" else None


def full_name_shapes(entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (entity_id) of names with the shape of a person's full name whose words no text of the scope uses small.

    Args:
        entities: the entities table.
        memories: the memories table.
    """
    two_words = entities.filter(pl.col("name").str.contains(_NAME_WORDS)).select("entity_id", *SCOPE, "name")
    shaped = [is_full_name(fold(n).split()) and name_type(n) is None and not _is_counted(n) for n in two_words["name"]]
    names = two_words.filter(pl.Series(shaped, dtype=pl.Boolean))
    words = names.with_columns(word=pl.col("name").str.to_lowercase().str.split(" ")).explode("word")
    if words.is_empty():
        return names.select("entity_id")
    texts = memories.select(*SCOPE, word=pl.col("text").str.extract_all(r"\b\p{Ll}[\p{L}'’-]+")).explode("word")  # noqa: RUF001
    used = words.join(texts.unique(), on=[*SCOPE, "word"], how="semi")
    return names.join(used, on="entity_id", how="anti").select("entity_id")


def _is_counted(name: str) -> bool:
    return name.split()[0].split("-")[0].lower() in COUNTED


_SCHEMA = ("node_id", "type", "rule", "weight", "noun", "memory_id")
_OF_ENTITY_TYPE = {"person": 0.8, "organisation": 1.5, "place": 0.3}
_OF_PREDICATE = {
    "subject_id": {
        "person": "works_for works_as lives_in born_in died_in studied_at teaches_at plays_for married_to wrote",
        "organisation": "supplies employs",
        "product": "made_by costs",
        "event": "scheduled_for",
    },
    "object_id": {
        "person": "made_by reports_to married_to",
        "organisation": "works_for",
        "place": "located_in born_in died_in lives_in",
    },
}
_PREDICATE_WEIGHT, _DEFINED_WEIGHT = 1.2, 2.0
_GAZETTEER_WEIGHT = 1.5
_MODEL_WEIGHT = 2.5  # more than its name, a list of names or a definition shows, less than that it speaks
_LINE_BEGIN = r"(?:^|\n)[#*\s]*$"
_SHAPE_WEIGHT = 0.75
_ALIAS_SHARE = 0.6  # of the weight of what a name shows, for its aliases


def type_evidence(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (node_id, type, rule, weight, noun, memory_id), a row for each thing that shows a type, unsorted.

    Args:
        tables: entities, mentions, memories, documents, facts and stated_entities.
    """
    entities, memories = tables["entities"], tables["memories"]
    own = headings(tables)
    parts = [
        name_contexts(tables["mentions"], memories),
        _of_names(entities),
        _of_shapes(entities, memories),
        _of_entity_types(entities),
        _of_people(entities, memories, tables["documents"]),
        _of_facts(tables["clause_facts"]),
        _of_models(tables["stated_entities"]),
        _of_folders(tables, own),
    ]
    found = pl.concat([p.select(_cast(c) for c in _SCHEMA) for p in parts])
    is_own = pl.col("node_id").is_in(own["entity_id"].implode())
    codes = entities.filter(pl.col("type").is_in(["acronym", "code"]))["entity_id"]
    found = found.filter(~pl.col("node_id").is_in(codes.implode()) | ~pl.col("type").is_in(["person", "place"]))
    return found.filter(~is_own | (pl.col("type") == "event"))


def headings(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (entity_id) of titles that name their document alone, such as `How we release`: no sentence uses them."""
    titles = tables["entities"].filter(type="title")
    spans = tables["mentions"].drop_nulls("char_start").join(titles.select("entity_id"), on="entity_id", how="semi")
    spans = spans.join(tables["memories"].select("memory_id", "text"), on="memory_id")
    start = pl.col("char_start")
    before = pl.col("text").str.slice(pl.max_horizontal(start - 8, 0), pl.min_horizontal(start, 8))
    fills_line = before.str.contains(_LINE_BEGIN) & pl.col("text").str.slice("char_end", 4).str.contains(
        r"^\s*(?:\n|$)"
    )
    unused = titles.join(spans.filter(~fills_line).select("entity_id"), on="entity_id", how="anti")
    words = pl.col("name").str.replace(r"\s*\([^()]*\)$", "").str.split(" ")
    is_small = pl.element().str.contains(r"^\p{Ll}") & ~pl.element().is_in(sorted(LINKS | PARTICLES))
    return unused.filter(words.list.eval(is_small).list.any()).select("entity_id")


def _cast(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Float64 if column == "weight" else pl.String)


def _rows(rows: list[tuple[str, str, str, float, str]]) -> pl.DataFrame:
    columns = ("node_id", "type", "rule", "weight", "noun")
    schema = {c: pl.Float64 if c == "weight" else pl.String for c in columns}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(memory_id=pl.lit(None, pl.String))


def _of_names(entities: pl.DataFrame) -> pl.DataFrame:
    """Returns what the words of names and aliases show: the last noun, an honorific, a day of the week."""
    rows = []
    for node_id, name, aliases in entities.select("entity_id", "name", "aliases").iter_rows():
        for spelling, share in ((name, 1.0), *((a, _ALIAS_SHARE) for a in aliases or ())):
            if found := name_type(spelling):
                rows.append(
                    (node_id, found.type, "name" if share == 1.0 else "alias", found.weight * share, found.noun)
                )
    return _rows(rows)


def _of_shapes(entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    found = full_name_shapes(entities, memories)
    return _rows([(i, "person", "shape", _SHAPE_WEIGHT, "") for i in found["entity_id"].sort()])


def _of_entity_types(entities: pl.DataFrame) -> pl.DataFrame:
    """Returns the types that entities have by their names, and what a name alone says: a person's, or a city's."""
    rows = []
    for node_id, name, kind in entities.select("entity_id", "name", "type").sort("entity_id").iter_rows():
        named = "person" if is_person_name(name) else "place" if is_city(name) else ""
        rows += [(node_id, named, "gazetteer", _GAZETTEER_WEIGHT, "")] if named else []
        rows += (
            [(node_id, kind, "names", _OF_ENTITY_TYPE[kind], "")] if kind in _OF_ENTITY_TYPE.keys() - {named} else []
        )
    return _rows(rows)


def _of_people(entities: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns persons: speakers, and people whom metadata names as authors and the like."""
    people = find_people(memories, documents).select(*SCOPE, spelling="surface").unique()
    found = spellings(entities).join(people, on=[*SCOPE, "spelling"], how="semi")
    return _rows([(i, "person", "people", 4.0, "") for i in found["entity_id"].unique().sort()])


def spellings(entities: pl.DataFrame) -> pl.DataFrame:
    """Returns (entity_id, scope, spelling) for the name and the aliases of each entity."""
    names = pl.concat_list(pl.concat_list("name"), pl.col("aliases").fill_null([]))
    return entities.select("entity_id", *SCOPE, spelling=names).explode("spelling").drop_nulls("spelling").unique()


def _of_facts(clauses: pl.DataFrame) -> pl.DataFrame:
    stated = (
        clauses.filter(~pl.col("is_negated").fill_null(False))
        .group_by("subject_id", "predicate", "object_id", "value")
        .agg(pl.col("memory_id").min())
    )
    parts = [
        with_noun_types(
            stated.filter(pl.col("predicate") == IS_A).drop_nulls("value").rename({"value": "phrase"}),
            "phrase",
        ).select("type", "noun", "memory_id", node_id="subject_id", rule=pl.lit("fact"), weight=pl.lit(_DEFINED_WEIGHT))
    ]
    for end, kinds in _OF_PREDICATE.items():
        for kind, predicates in kinds.items():
            of_kind = stated.filter(pl.col("predicate").is_in(predicates.split())).drop_nulls(end)
            parts.append(
                of_kind.select(
                    "memory_id",
                    node_id=end,
                    type=pl.lit(kind),
                    noun="predicate",
                    rule=pl.lit("predicate"),
                    weight=pl.lit(_PREDICATE_WEIGHT),
                )
            )
    return pl.concat([p.select(_cast(c) for c in _SCHEMA) for p in parts])


def _of_models(stated: pl.DataFrame) -> pl.DataFrame:
    """Returns what a language model takes the entities of each memory for."""
    return stated.select(
        "type", "memory_id", node_id="entity_id", rule=pl.lit("model"), noun=pl.lit(""), weight=pl.lit(_MODEL_WEIGHT)
    )


def _of_folders(tables: Mapping[str, pl.DataFrame], own: pl.DataFrame) -> pl.DataFrame:
    """Returns what the folder of a document shows of the entity that its title names: `people/`, `suppliers/`.

    Of titles that name their document alone only events count: minutes in `meetings/` are of a meeting.
    """
    titled = titled_entities(tables)
    folders = {f: singular(f.lower().split()[-1]) for f in titled["folder"].unique() if f.strip()}
    types = {f: noun_type(noun) for f, noun in folders.items()}
    placed = titled.with_columns(
        noun=pl.col("folder").replace_strict(folders, default="", return_dtype=pl.String),
        type=pl.col("folder").replace_strict(types, default="", return_dtype=pl.String),
    ).filter(pl.col("type") != "")
    is_own = pl.col("entity_id").is_in(own["entity_id"].implode())
    return (
        placed.filter(~is_own | (pl.col("type") == "event"))
        .select("type", "noun", node_id="entity_id", rule=pl.lit("folder"), weight=pl.lit(2.0))
        .with_columns(memory_id=pl.lit(None, pl.String))
        .unique()
    )


def titled_entities(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (entity_id, document_id, scope, folder, metadata, source_time) of entities that documents are titled by.

    `folder` is the last folder of the document's uri as words, empty at the top.
    """
    documents = (
        tables["documents"]
        .filter("is_current")
        .select(
            "document_id",
            *SCOPE,
            "metadata",
            "source_time",
            spelling=pl.col("title").str.strip_chars(),
            folder=pl.col("uri").str.extract(r"([^/#]+)/[^/]+$").str.replace_all(r"[-_\s]+", " ").fill_null(""),
        )
    )
    return (
        spellings(tables["entities"])
        .join(documents.filter(pl.col("spelling").fill_null("") != ""), on=[*SCOPE, "spelling"])
        .drop("spelling")
        .unique(["entity_id", "document_id"])
    )
