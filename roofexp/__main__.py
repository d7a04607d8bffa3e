from roofexp.commands import main

main()
