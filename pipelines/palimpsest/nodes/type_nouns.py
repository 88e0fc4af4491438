"""Nouns that show of what type a node is: `a village` is a place, `a cellist` a person. Part of the program.

Types follow the entity types of OntoNotes 5 (Weischedel et al., 2013): buildings, routes and land forms are places, and
works of art are products.
"""

from palimpsest.entities.names.find_names import OCCUPATION, OFFICES, RELATIVE, SETTLEMENTS, word_set

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
    return _ENDING_TYPE.get(lower) or noun_type(lower)


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
