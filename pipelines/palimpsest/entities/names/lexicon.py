"""Words that show what a name can be: a firm, a body, a place, a work, a people, an office. Part of the program."""

import re

from palimpsest.text.stopwords import CALENDAR_WORDS, STOPWORDS


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a list that white space separates."""
    return frozenset(text.split())


FIRM = word_set("inc ltd llc gmbh corp corporation company plc ag group")
ORGANISATION = FIRM | word_set(
    """
    university institute college school committee agency bank council association foundation department ministry
    club society office union authority trust commission laboratory laboratories party church museum library
    hospital organisation organization federation
    """
)
PARTICLES = word_set("de del della di da dos du des la le van von der den y al el ibn bin")
LINKS = word_set("of the and for & in on at to")
PLACES = word_set(
    """
    street road avenue river lake mount mountain island islands city town county park bridge station airport square
    house hall room building tower valley bay beach hill hills coast sea ocean north south east west northern
    southern eastern western central upper lower new old great little saint st san santa district region province
    state republic kingdom empire territory area prison metro stadium arena forest desert peninsula strait canal dam
    port harbour castle palace cathedral airline airlines railway railways
    """
)
WORKS = word_set(
    """
    award awards prize cup day festival war battle treaty act law theory manual guide report plan project programme
    program model test show album song film tour series season league games championship bible literature music
    """
)
DEMONYMS = word_set(
    """
    american british english french german italian spanish chinese japanese russian indian irish scottish welsh
    dutch polish turkish greek roman european african asian canadian australian mexican brazilian swedish norwegian
    danish finnish egyptian israeli iranian jewish muslim catholic protestant native soviet arab latin
    """
)
SETTLEMENTS = word_set("city town municipality village borough commune")
OFFICES = word_set(
    """
    president king queen prince princess captain general major chief minister senator chancellor mayor governor
    judge pope bishop archbishop cardinal emperor justice secretary ambassador coach detective director chairman
    sultan
    """
)
PARTS_OF_NAMES = word_set("new first last great good old day time times works over down people")
BODIES = word_set(
    """
    institute institutes center centers centre centres council association foundation committee agency department
    ministry society campaign movement school bureau office commission fund union board alliance coalition party
    trust college academy group network programme program secretary minister prize award house court convention
    """
)
DEFINITE = word_set("the our its their his her my your this")
COUNTED = word_set(
    """
    many several few some all both these those more most two three four five six seven eight nine ten eleven twelve
    twenty thirty forty fifty hundred dozen
    """
)
ONE = word_set("a an each every one another")
WHERE = word_set("in near around inside outside throughout across")
RELATIVE = word_set(
    """
    brother sister mother father mum mom dad son daughter wife husband uncle aunt cousin nephew niece grandmother
    grandfather grandma grandpa neighbour neighbor flatmate roommate boss colleague friend girlfriend boyfriend
    """
)
OCCUPATION = word_set(
    """
    manager engineer director teacher doctor nurse lawyer artist singer actor actress writer author poet player
    politician footballer journalist scientist researcher student developer designer consultant accountant officer
    president minister chairman chairwoman secretary treasurer mayor founder chef musician composer painter dancer
    coach vet dentist
    """
)
MALE = word_set("mr sir lord herr")
FEMALE = word_set("mrs ms miss madam lady frau")
HONORIFICS = (
    MALE
    | FEMALE
    | word_set("dr doctor prof professor mx rev reverend hon capt col gen lt sgt sen gov lieutenant sergeant colonel")
)
ORDINARY = (
    (STOPWORDS - PARTS_OF_NAMES)
    | CALENDAR_WORDS
    | word_set(
        """
        i a mr mrs ms dr prof sir chapter section figure table note yay yo haha lol omg btw aww congrats congratulations
        woohoo two three four five six seven eight nine ten cause welcome cheers dear regards later earlier despite
        meanwhile recently finally initially eventually moreover furthermore nevertheless although unlike including
        following originally formerly currently awesome anytime woah bet besides
        """
    )
)
_ROMAN = re.compile(r"[ivx]+")


def is_full_name(tokens: list[str]) -> bool:
    """Returns whether the words of a key have the shape of a person's full name."""
    odd = ORGANISATION | LINKS | PLACES | WORKS | DEMONYMS
    plain = [t for t in tokens if t not in PARTICLES]
    if not 2 <= len(plain) <= 4 or odd & set(tokens) or len(plain[-1]) < 2 or _ROMAN.fullmatch(plain[-1]):
        return False
    return all(t.replace("-", "").replace("'", "").isalpha() and not t.endswith("'s") for t in plain)
