"""Slots: attributes with one value at a time, by the nouns, verbs and states that English uses for them.

Written from the language and frozen in the program (decision 15). A noun or verb that is not listed may take several
values at a time (hobby, friend, likes, uses), so nothing is retired for it unless the text states what ended.
"""

_NOUNS = """
deadline: deadline cutoff due-date
price: price cost fee fare rent tariff
rate: rate
budget: budget
salary: salary wage pay
limit: limit cap quota maximum minimum allowance
threshold: threshold
timeout: timeout ttl
version: version
owner: owner maintainer custodian
manager: manager boss supervisor
head: lead leader head chair chairperson chairman chairwoman president director ceo officer captain coach
head: mayor principal
contact: contact
address: address
venue: venue location place
room: room desk seat office
home: headquarters hq base hometown residence
capital: capital
port: port
url: url link endpoint
host: host hosting
region: region zone
colour: colour color
phone: phone extension
email: email
name: name title codename
status: status state phase stage
size: size
weight: weight
height: height
age: age
capacity: capacity headcount
population: population
duration: duration length period retention lifetime
interval: interval frequency cadence
start: start kickoff
end: end expiry
launch: launch go-live rollout
date: date
time: time slot
target: target
score: score
rank: rank ranking
rating: rating
balance: balance
total: total count
speed: speed
temperature: temperature
default: default
winner: winner champion
spouse: spouse wife husband
employer: employer
job: job
currency: currency
dose: dose dosage
quorum: quorum
"""
_VERBS = """
home: lives in; lives at; resides in; is living in; live in; live at; relocated to; has relocated to; have relocated to
employer: works at; works for; work at; work for; is employed by; is employed at
team: plays for
venue: is based in; are based in; is located in; is located at; is headquartered in; takes place in
head: reports to; is managed by; is led by; are led by; is headed by; is run by; is chaired by; is coached by
owner: is owned by; is maintained by; belongs to
price: costs; is priced at; sells for; lists at; is listed at
duration: takes; lasts; last
deadline: is due on; is due by; is due; are due on; are due by; are due
start: starts on; starts at; starts in; start on; start at; begins on; begins at; begins in; opens on
start: opens at; opens in
end: ends on; ends at; ends in; closes on; closes at; closes in; expires on; expires in; expires
launch: ships on; ships in; launches on; launches in; goes live on; goes live in; is released on; is released in
date: is scheduled for; are scheduled for; is planned for; is set for; takes place on; takes place at
date: is held on; is held at
host: is hosted on; is hosted by; is hosted in; is deployed on; is deployed to; runs on; run on
spouse: is married to
name: is called; is named
limit: is limited to; are limited to; is capped at; are capped at
weight: weighs
"""
_STATES = """
planned, pending, open, in progress, started, blocked, paused, on hold, under review, approved, rejected, done, live
planned, complete, completed, finished, closed, shipped, cancelled, canceled, resolved, merged, postponed
enabled, disabled, on, off
mandatory, required, compulsory, optional
allowed, permitted, forbidden, prohibited, banned
available, unavailable, sold out
supported, unsupported, deprecated, retired, end of life
free, paid
public, private
active, inactive
draft, final
vacant, occupied, filled
in stock, out of stock
healthy, down, degraded
"""

_MULTIVALUED = """
friend colleague hobby interest child son daughter sister brother cousin neighbour neighbor student client customer
supplier partner member sponsor topic part reason problem skill example pet plan idea dream wish concern point
"""
MULTIVALUED_NOUNS = frozenset(_MULTIVALUED.split())
"""Nouns that someone may have several of, even where a text says `now`."""

SLOT_OF_NOUN: dict[str, str] = {
    noun: slot for line in _NOUNS.strip().splitlines() for slot, nouns in [line.split(": ")] for noun in nouns.split()
}
SLOT_OF_VERB: dict[str, str] = {
    verb: slot
    for line in _VERBS.strip().splitlines()
    for slot, verbs in [line.split(": ")]
    for verb in verbs.split("; ")
}
STATE_GROUP: dict[str, int] = {}
"""The group of each state: states of one group exclude each other, states of two groups are independent."""
for _group, _line in enumerate(_STATES.strip().splitlines()):
    _states = _line.split(", ")
    # A line whose first state is in an earlier line belongs to the same group.
    STATE_GROUP.update(dict.fromkeys(_states, STATE_GROUP.get(_states[0], _group)))
