"""Words that carry no theme in a question, of five languages, folded (without case and accents)."""

from __future__ import annotations

_FRENCH = """
a ai aie aimerais aimerait alors apres as au aucun aucune aussi autre autres aux avant avec avez avoir avons
bien c ca car ce cela celle celles celui ces cet cette ceux chez ci combien comme comment concerne d dans de
deja depuis des dire dit dites doit donc donne donner dont du elle elles en encore entre envers es est et etait ete
etes etre eu eux faire fait faites faut fonctionne font genre grace ici il ils interesse j je jusqu jusque l la
laquelle le lequel les lesquels leur leurs lors lui m ma mais me meme mes mieux moi moins mon n ne ni non nos notre
nous on ont ou oui par parle parler parlez pas pendant peu peut peuvent peux plus plutot possible pour pourquoi
pourrait pouvez propos proposez propose puis puisque qu quand que quel quelle quelles quels qui quoi s sa sans savoir
se selon sera ses si soit son sont sous souhaite sur t ta te tel telle tes toi ton tous tout toute toutes tres trop tu
un une va vais vers veut veux voici voila vos votre voudrais voulez vous y
"""
_ENGLISH = """
a about after all already also am an and any anyone anything are aren as at be because been before being both but by
can cannot could d did didn do does doesn doing don done each else every for from get give go got had has have having
he her here hers him his how i if in into is isn it its just know let like ll m many may me might more most much must
my need no nor not of off on one only or other our ours out over own please possible rather re s same shall she
should so some something such t tell than thank thanks that the their theirs them then there these they thing things
this those though through to too under up upon us use used using very want was we well were what when where whether
which while who whom whose why will with without would yes yet you your yours
"""
_SPANISH = """
a acerca ahi al algo algun alguna algunas alguno algunos ante antes aqui asi aunque bien cada como con contra cosa
cosas cual cuales cualquier cuando cuanta cuantas cuanto cuantos da dan de debe decir del desde despues dice donde
dos e el ella ellas ello ellos en entonces entre era es esa esas ese eso esos esta estan estar estas este esto estos
fue funciona gracias ha hace hacen hacer hacia han hasta hay he la las le les lo los mas me mi mis mismo mucho muy
nada necesito ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero podria podrian por porque
posible puede pueden puedo pues que quien quienes quiere quiero quisiera se sea segun ser si sido sin sobre sois
solo son soy su sus suya tal tambien tan tanto te teneis tenemos tener tengo ti tiene tienen tienes todo todos tu tus
un una unas uno unos usted ustedes va van vosotros voy vuestra vuestro y ya yo
"""
_ITALIAN = """
a abbiamo ad ai al alcuni all alla alle allo altra altre altri altro anche ancora avere avete aveva c che chi ci cio
ciascuno come con cosa cose cui d da dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello di dire
dopo dove due e ecco ed era esiste essa esse essere essi fa fanno fare fate gia gli grazie ha hai hanno ho i il in io
l la le lei li lo loro ma me meglio mi mia mie miei mio molto ne negli nei nel nell nella nelle nello no noi non nostra
nostro nulla o ogni oppure ora per perche pero piu poco poi possibile posso possono potete potrebbe prima puo qual
quale quali qualche quando quanta quante quanti quanto quel quella quelle quelli quello questa queste questi questo
qui s sara se sei senza si sia siamo siete solo sono sotto sta stata stato stesso su sua sue sui sul sull sulla suo
suoi tra tu tua tue tuo tutte tutti tutto un una uno v va vi voglio voi vorrei vostra vostro
"""
_GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderen anderer auch auf aus bei beim bereits bin bis bitte
da dabei dadurch dafur dagegen damit danach danke dann daran darauf darin daruber das dass davon dazu dein deine dem den
denn der deren des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
eines er es etwas euch euer eure fur gab geben genau gerne gibt habe haben habt hat hatte hatten hier ihm ihn ihnen ihr
ihre ihrem ihren ihrer im in ins ist ja je jede jedem jeden jeder jedes kann kein keine keinen kannst konnen konnte
konnten lieber machen macht man mehr mein meine mich mir mit mochte mochten muss mussen nach nein nicht nichts noch nun
nur ob oder ohne schon sehr sein seine seit sich sie sind so soll sollen sollte sondern uber um und uns unser unsere
unter viel viele vielen vom von vor war warum was welche welchem welchen welcher welches wenn wer werden wie wieder
wieso wir wird wo wollen wozu wurde wurden zu zum zur zwischen
"""

STOP_WORDS: frozenset[str] = frozenset(
    word for language in (_FRENCH, _ENGLISH, _SPANISH, _ITALIAN, _GERMAN) for word in language.split()
)
"""Of all languages together: a query's language is often unclear, and few of them mean something else
in another one."""
