// The many operands of a wgmma instruction in inline PTX, for COUNT accumulators of a thread.
// REGISTERS_COUNT are their numbers in the instruction's text, %0, %1, …; ACCUMULATORS_COUNT are
// the operands themselves, as constraints. The others follow, from %COUNT on.
#pragma once

#define REGISTERS_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define REGISTERS_32 REGISTERS_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define REGISTERS_48 REGISTERS_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define REGISTERS_64 REGISTERS_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define REGISTERS_80 REGISTERS_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define REGISTERS_96 REGISTERS_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define REGISTERS_128 REGISTERS_96 \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114" \
    ",%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define EIGHT_FROM(i) "+f"(accumulators[i]), "+f"(accumulators[i + 1]), \
    "+f"(accumulators[i + 2]), "+f"(accumulators[i + 3]), "+f"(accumulators[i + 4]), \
    "+f"(accumulators[i + 5]), "+f"(accumulators[i + 6]), "+f"(accumulators[i + 7])
#define ACCUMULATORS_16 EIGHT_FROM(0), EIGHT_FROM(8)
#define ACCUMULATORS_32 ACCUMULATORS_16, EIGHT_FROM(16), EIGHT_FROM(24)
#define ACCUMULATORS_48 ACCUMULATORS_32, EIGHT_FROM(32), EIGHT_FROM(40)
#define ACCUMULATORS_64 ACCUMULATORS_48, EIGHT_FROM(48), EIGHT_FROM(56)
#define ACCUMULATORS_80 ACCUMULATORS_64, EIGHT_FROM(64), EIGHT_FROM(72)
#define ACCUMULATORS_96 ACCUMULATORS_80, EIGHT_FROM(80), EIGHT_FROM(88)
#define ACCUMULATORS_128 ACCUMULATORS_96, EIGHT_FROM(96), EIGHT_FROM(104), EIGHT_FROM(112), \
    EIGHT_FROM(120)
