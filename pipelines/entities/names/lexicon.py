"""Words that tell what a name can be: a firm, a body, a place, a work, a people, an office. Part of the program."""

import re

from palimpsest.text.stopwords import CALENDAR_WORDS, STOPWORDS


def words(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


FIRM = words("inc ltd llc gmbh corp corporation company plc ag group")
ORGANISATION = FIRM | words(
    """
    university institute college school committee agency bank council association foundation department ministry
    club society office union authority trust commission laboratory laboratories party church museum library
    hospital organisation organization federation
    """
)
PARTICLES = words("de del della di da dos du des la le van von der den y al el ibn bin")
LINKS = words("of the and for & in on at to")
PLACES = words(
    """
    street road avenue river lake mount mountain island islands city town county park bridge station airport square
    house hall room building tower valley bay beach hill hills coast sea ocean north south east west northern
    southern eastern western central upper lower new old great little saint st san santa district region province
    state republic kingdom empire territory area prison metro stadium arena forest desert peninsula strait canal dam
    port harbour castle palace cathedral airline airlines railway railways
    """
)
WORKS = words(
    """
    award awards prize cup day festival war battle treaty act law theory manual guide report plan project programme
    program model test show album song film tour series season league games championship bible literature music
    """
)
DEMONYMS = words(
    """
    american british english french german italian spanish chinese japanese russian indian irish scottish welsh
    dutch polish turkish greek roman european african asian canadian australian mexican brazilian swedish norwegian
    danish finnish egyptian israeli iranian jewish muslim catholic protestant native soviet arab latin
    """
)
SETTLEMENTS = words("city town municipality village borough commune")
OFFICES = words(
    """
    president king queen prince princess captain general major chief minister senator chancellor mayor governor
    judge pope bishop archbishop cardinal emperor justice secretary ambassador coach detective director chairman
    sultan
    """
)
PARTS_OF_NAMES = words("new first last great good old day time times works over down people")
BODIES = words(
    """
    institute institutes center centers centre centres council association foundation committee agency department
    ministry society campaign movement school bureau office commission fund union board alliance coalition party
    trust college academy group network programme program secretary minister prize award house court convention
    """
)
DEFINITE = words("the our its their his her my your this")
COUNTED = words(
    """
    many several few some all both these those more most two three four five six seven eight nine ten eleven twelve
    twenty thirty forty fifty hundred dozen
    """
)
ONE = words("a an each every one another")
WHERE = words("in near around inside outside throughout across")
RELATIVE = words(
    """
    brother sister mother father mum mom dad son daughter wife husband uncle aunt cousin nephew niece grandmother
    grandfather grandma grandpa neighbour neighbor flatmate roommate boss colleague friend girlfriend boyfriend
    """
)
OCCUPATION = words(
    """
    manager engineer director teacher doctor nurse lawyer artist singer actor actress writer author poet player
    politician footballer journalist scientist researcher student developer designer consultant accountant officer
    president minister chairman chairwoman secretary treasurer mayor founder chef musician composer painter dancer
    coach vet dentist
    """
)
MALE = words("mr sir lord herr")
FEMALE = words("mrs ms miss madam lady frau")
HONORIFICS = (
    MALE
    | FEMALE
    | words("dr doctor prof professor mx rev reverend hon capt col gen lt sgt sen gov lieutenant sergeant colonel")
)
ORDINARY = (
    (STOPWORDS - PARTS_OF_NAMES)
    | CALENDAR_WORDS
    | words(
        """
        i a mr mrs ms dr prof sir chapter section figure table note yay yo haha lol omg btw aww congrats congratulations
        woohoo two three four five six seven eight nine ten cause welcome cheers dear regards later earlier despite
        meanwhile recently finally initially eventually moreover furthermore nevertheless although unlike including
        following originally formerly currently awesome anytime woah bet besides
        """
    )
)
_ROMAN = re.compile(r"[ivx]+")


def personal(tokens: list[str]) -> bool:
    """Says whether the words of a key have the shape of a person's full name."""
    odd = ORGANISATION | LINKS | PLACES | WORKS | DEMONYMS
    plain = [t for t in tokens if t not in PARTICLES]
    if not 2 <= len(plain) <= 4 or odd & set(tokens) or len(plain[-1]) < 2 or _ROMAN.fullmatch(plain[-1]):
        return False
    return all(t.replace("-", "").replace("'", "").isalpha() and not t.endswith("'s") for t in plain)
