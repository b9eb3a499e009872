.text
 s_endpgm
.bss
.zero 5000
.data
.zero 0x1ff0
